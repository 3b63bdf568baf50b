/**
 * Words as integers of SMT-LIB, for lemmas that multiply and divide: the solver decides those over integers, where it
 * must try bits over bit-vectors. Each operation is exact: one that can exceed 256 bits is taken modulo 2^256. It has
 * the interface of `Terms` in symbolic.cjs, and refuses operations on single bits that are no field of a word.
 */
const WORD = 1n << 256n;
const MAX = WORD - 1n;
const known = (value) => ({ value, max: value });
const isKnown = (word) => word.value !== undefined;
function least(a, b) {
  if (a < b) return a;
  return b;
}

class IntegerTerms {
  /** SMT-LIB definitions, in the order of their dependencies. */
  definitions = [];
  #names = new Map();
  #fold;

  /** @param fold the operations on known values */
  constructor(fold) {
    this.#fold = fold;
  }

  argument(name, bits) {
    this.definitions.push(
      `(declare-const ${name}_ Int)`,
      `(assert (and (<= 0 ${name}_) (< ${name}_ ${1n << BigInt(bits)})))`,
    );
    return { ...this.#define(`${name}_`, (1n << BigInt(bits)) - 1n), bits };
  }

  text(word) {
    return isKnown(word) ? `${word.value}` : word.name;
  }

  #define(term, max, sort = "Int") {
    const found = this.#names.get(term);
    if (found) return found;
    const name = `t${this.#names.size}`;
    this.definitions.push(`(define-fun ${name} () ${sort} ${term})`);
    const word = { name, max };
    this.#names.set(term, word);
    return word;
  }

  flag(test) {
    const { name } = this.#define(test, 1n, "Bool");
    return { ...this.#define(`(ite ${name} 1 0)`, 1n), test: name };
  }

  truth(word) {
    return word.test ?? `(distinct ${this.text(word)} 0)`;
  }

  /** A sum or product, which wraps when it can exceed a word. */
  #wrapping(operator, a, b, max) {
    const term = `(${operator} ${this.text(a)} ${this.text(b)})`;
    return max <= MAX ? this.#define(term, max) : this.#define(`(mod ${term} ${WORD})`, MAX);
  }

  binary(name, a, b) {
    if (isKnown(a) && isKnown(b)) return known(this.#fold[name](a.value, b.value) & MAX);
    const [x, y] = [this.text(a), this.text(b)];
    switch (name) {
      case "ADD":
        return this.#wrapping("+", a, b, a.max + b.max);
      case "MUL":
        return this.#wrapping("*", a, b, a.max * b.max);
      case "SUB":
        return this.#define(`(ite (>= ${x} ${y}) (- ${x} ${y}) (+ (- ${x} ${y}) ${WORD}))`, MAX);
      case "DIV":
        return this.#define(`(ite (= ${y} 0) 0 (div ${x} ${y}))`, isKnown(b) && b.value > 0n ? a.max / b.value : a.max);
      case "MOD":
        return this.#define(`(ite (= ${y} 0) 0 (mod ${x} ${y}))`, isKnown(b) ? least(a.max, b.value - 1n) : a.max);
      case "SHR":
        return this.#define(`(div ${y} ${1n << this.#distance(a)})`, b.max >> this.#distance(a));
      case "SHL":
        return this.#wrapping("*", b, known(1n << this.#distance(a)), b.max << this.#distance(a));
      case "AND":
        return isKnown(a) ? this.#field(b, a.value) : this.#field(a, this.#constant(b));
      case "OR":
        if (a.max > 1n || b.max > 1n) throw new Error("two words that are no Booleans are combined bit by bit");
        return this.flag(`(or ${this.truth(a)} ${this.truth(b)})`);
      case "LT":
        return this.flag(`(< ${x} ${y})`);
      case "GT":
        return this.flag(`(> ${x} ${y})`);
      case "EQ":
        return this.flag(`(= ${x} ${y})`);
      default:
        throw new Error(`the instruction ${name} is not modelled over integers`);
    }
  }

  #constant(word) {
    if (!isKnown(word)) throw new Error("two words that are not constant are combined bit by bit");
    return word.value;
  }

  #distance(word) {
    const distance = this.#constant(word);
    if (distance > 255n) throw new Error("a shift by more than a word");
    return distance;
  }

  /** The bits of `word` that a mask of adjacent bits keeps. */
  #field(word, mask) {
    if (mask === 0n) return known(0n);
    const lowest = mask & -mask;
    const width = mask / lowest + 1n;
    if ((width & (width - 1n)) !== 0n) throw new Error("a mask of bits that are not adjacent");
    if (lowest === 1n && word.max <= mask) return word;
    const shifted = lowest === 1n ? this.text(word) : `(div ${this.text(word)} ${lowest})`;
    const field = `(mod ${shifted} ${width})`;
    return this.#define(lowest === 1n ? field : `(* ${field} ${lowest})`, least(mask, word.max));
  }

  isZero(word) {
    return isKnown(word) ? known(word.value === 0n ? 1n : 0n) : this.flag(`(not ${this.truth(word)})`);
  }

  not(word) {
    return isKnown(word) ? known(MAX ^ word.value) : this.#define(`(- ${MAX} ${this.text(word)})`, MAX);
  }
}

module.exports = { IntegerTerms };
