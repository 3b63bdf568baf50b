/** Defines pagination of lists: `limit` rows at a time; each page has the cursor of the next one. */
import { z } from "zod";

export const limitSchema = z
  .string()
  .regex(/^(?:[1-9][0-9]?|1[0-9]{2}|200)$/, "must be a whole number from 1 to 200")
  .default("50")
  .transform(Number);

/** A position in the list, as an earlier page returned it. */
export const cursorSchema = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,14})$/, "must be a cursor that an earlier page returned")
  .default("0")
  .transform(Number);
