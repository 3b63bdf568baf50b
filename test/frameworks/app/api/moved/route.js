import { redirect } from "next/navigation";
import { gated } from "../../../gate.mjs";

export const GET = gated(() => redirect("/elsewhere"));
