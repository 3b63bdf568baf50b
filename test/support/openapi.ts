/** Returns an OpenAPI document with each `$ref` replaced by its component. */
export function dereferenced<T>(document: object): T {
  const { components } = document as { components: Record<string, Record<string, unknown>> };
  const resolve = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(resolve);
    if (typeof value !== "object" || value === null) return value;
    if ("$ref" in value) {
      const [kind = "", name = ""] = String(value.$ref).replace("#/components/", "").split("/");
      return resolve(components[kind]?.[name]);
    }
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, resolve(each)]));
  };
  return resolve(document) as T;
}
