/** Writes to the page's elements, always as text. */

const find = (id: string): HTMLElement => {
  const element = document.getElementById(id);
  if (element) return element;
  throw new Error(`the page has no #${id}`);
};

const status = find("status");
const problem = find("problem");
const action = find("action") as HTMLButtonElement;
const choices = find("wallets");

/** Reports progress; screen readers read it when they are idle. */
export function showStatus(text: string, isBusy = false): void {
  problem.textContent = "";
  status.textContent = text;
  status.classList.toggle("busy", isBusy);
}

/** Reports what went wrong and what to do; screen readers read it at once. */
export function showProblem(text: string): void {
  showStatus("");
  problem.textContent = text;
}

/** Labels the one button. It keeps the focus while it is off. */
export function showAction(label: string, isOff = false): void {
  action.textContent = label;
  action.setAttribute("aria-disabled", String(isOff));
}

export function onAction(act: () => void): void {
  action.addEventListener("click", () => {
    if (action.getAttribute("aria-disabled") !== "true") act();
  });
}

/** Offers names to choose from, as buttons. Focuses the first. */
export function showChoices(names: readonly string[], choose: (place: number) => void): void {
  choices.replaceChildren(
    ...names.map((name, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "choice";
      button.textContent = name;
      button.addEventListener("click", () => choose(place));
      return button;
    }),
  );
  action.hidden = names.length > 0;
  (choices.firstElementChild as HTMLElement | null)?.focus();
}

export function hideChoices(): void {
  choices.replaceChildren();
  action.hidden = false;
  action.focus();
}

/** A second, quieter button, or none. */
export function showOther(label?: string, act?: () => void): void {
  const other = find("other") as HTMLButtonElement;
  other.hidden = label === undefined;
  other.textContent = label ?? "";
  other.onclick = act ?? null;
}

/** Writes the account that pays. */
export function showAccount(account: string): void {
  find("account").textContent = account === "" ? "" : `Paying from ${account.slice(0, 6)}…${account.slice(-4)}`;
}

export function showPrice(amount: string, network: string): void {
  find("amount").textContent = amount;
  find("network").textContent = network;
}

/** The place in the list of options that is chosen. */
export function chosenPlace(): number {
  const chosen = document.querySelector<HTMLInputElement>("input[name=option]:checked");
  return chosen ? Number(chosen.value) : 0;
}

export function onChoice(act: () => void): void {
  document.getElementById("options")?.addEventListener("change", act);
}

/** Options cannot change while a payment is signed or presented. */
export function lockOptions(isLocked: boolean): void {
  (document.getElementById("options") as HTMLFieldSetElement | null)?.toggleAttribute("disabled", isLocked);
}

/** Writes the price beside one option. */
export function showOption(place: number, label: string): void {
  const text = document.querySelector(`label[data-place="${place}"] b`);
  if (text) text.textContent = label;
}

export interface Bought {
  /** what became of the payment */
  readonly line: string;
  /** names the transaction; may be empty */
  readonly receipt: string;
  /** undefined where the content can only be saved */
  readonly element: HTMLElement | undefined;
  readonly link: HTMLElement;
}

/** Replaces the form by what was bought, and moves the focus to it. */
export function showBought({ line, receipt, element, link }: Bought): void {
  find("form").hidden = true;
  showStatus("");
  find("line").textContent = line;
  find("receipt").textContent = receipt;
  find("save").replaceChildren(link);
  const content = find("content");
  const nothing = document.createElement("p");
  nothing.textContent = "This content cannot be shown here. Save a copy to open it.";
  content.replaceChildren(element ?? nothing);
  find("bought").hidden = false;
  find("received").focus();
}

export const titleOf = (): string => find("title").textContent ?? "";
