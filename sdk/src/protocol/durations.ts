/** Names durations in seconds. */

export const HOUR_SEC = 3_600;

export const DAY_SEC = 24 * HOUR_SEC;
