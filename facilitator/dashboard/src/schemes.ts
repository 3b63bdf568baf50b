/** Names and colours of the payment schemes, the same on every page. */
export const SCHEME_NAMES = {
  "one-time": "One-time",
  signup: "Signup",
  renewal: "Renewal",
  overage: "Overage",
  resume: "Resume",
  "plan-change": "Plan change",
} as const;
export type SchemeName = keyof typeof SCHEME_NAMES;

export const SCHEME_COLORS: Readonly<Record<SchemeName, string>> = {
  "one-time": "--s1",
  signup: "--s2",
  renewal: "--s3",
  overage: "--s4",
  resume: "--s5",
  "plan-change": "--s6",
};
