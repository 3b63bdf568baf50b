export const HOUR_SEC = 3_600;

export const DAY_SEC = 86_400;

export const WEEK_SEC = 7 * DAY_SEC;

export const FOUR_WEEKS_SEC = 4 * WEEK_SEC;
