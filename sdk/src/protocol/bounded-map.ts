/** Remembers what can be computed again: when it is full, it is emptied. A new entry then costs no search. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #capacity: number;

  constructor(capacity: number) {
    super();
    this.#capacity = capacity;
  }

  override set(key: K, value: V): this {
    if (this.size >= this.#capacity) this.clear();
    return super.set(key, value);
  }
}
