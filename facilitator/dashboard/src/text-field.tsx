/** A filter that is typed: it applies when it is left or entered, if it has the form that is wanted. */
export function TextField({
  label,
  value,
  type = "text",
  pattern,
  onChange,
}: {
  label: string;
  value: string;
  type?: "text" | "date";
  pattern?: string;
  onChange: (value: string) => void;
}) {
  return (
    <label class="choice">
      <span>{label}</span>
      <input
        type={type}
        value={value}
        autocomplete="off"
        spellcheck={false}
        {...(pattern !== undefined && { pattern, title: "An address: 0x and 40 hex digits" })}
        onChange={({ currentTarget }) => {
          if (currentTarget.reportValidity()) onChange(currentTarget.value.trim());
        }}
      />
    </label>
  );
}
