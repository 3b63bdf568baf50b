/**
 * Runs a pure function's bytecode on all arguments at once. Words are terms of SMT-LIB, and each branch that depends on
 * an argument is followed both ways. A code path ends by a return, a revert or a panic.
 *
 * It refuses what it does not model: storage, calls, memory at an address that depends on an argument.
 */

const WORD = 1n << 256n;
const MAX = WORD - 1n;
const bitsOf = (value) => BigInt(value.toString(2).length);
function greater(a, b) {
  if (a > b) return a;
  return b;
}
function lesser(a, b) {
  if (a < b) return a;
  return b;
}
const signed = (value) => (value >> 255n ? value - WORD : value);

/** A word: `value` when it is known; else `name` of a definition. `max` bounds it; `test` is a Boolean term of a 0 or 1. */
const known = (value) => ({ value, max: value });
const isKnown = (word) => word.value !== undefined;

class Terms {
  /** SMT-LIB definitions, in the order of their dependencies. */
  definitions = [];
  #names = new Map();

  argument(name, bits) {
    this.definitions.push(`(declare-const ${name}_ (_ BitVec ${bits}))`);
    const whole = bits === 256 ? `${name}_` : `((_ zero_extend ${256 - bits}) ${name}_)`;
    return { ...this.#define(whole, (1n << BigInt(bits)) - 1n), bits };
  }

  text(word) {
    return isKnown(word) ? `#x${word.value.toString(16).padStart(64, "0")}` : word.name;
  }

  #define(term, max, sort = "(_ BitVec 256)") {
    const found = this.#names.get(term);
    if (found) return found;
    const name = `t${this.#names.size}`;
    this.definitions.push(`(define-fun ${name} () ${sort} ${term})`);
    const word = { name, max };
    this.#names.set(term, word);
    return word;
  }

  /** A word that is 1 when the Boolean term holds, else 0. */
  flag(test) {
    const { name } = this.#define(test, 1n, "Bool");
    return { ...this.#define(`(ite ${name} ${this.text(known(1n))} ${this.text(known(0n))})`, 1n), test: name };
  }

  /** The Boolean term "is not 0". */
  truth(word) {
    return word.test ?? `(distinct ${this.text(word)} ${this.text(known(0n))})`;
  }

  /** An operation that the solver has at any width, at the least width that holds both operands and the result. */
  #narrow(operator, a, b, max) {
    const bits = [a.max, b.max, max].map(bitsOf).reduce(greater);
    if (bits >= 256n) return this.#define(`(${operator} ${this.text(a)} ${this.text(b)})`, MAX);
    const cut = (word) => `((_ extract ${bits - 1n} 0) ${this.text(word)})`;
    return this.#define(`((_ zero_extend ${256n - bits}) (${operator} ${cut(a)} ${cut(b)}))`, max);
  }

  #wide(operator, a, b, max) {
    return this.#define(`(${operator} ${this.text(a)} ${this.text(b)})`, max);
  }

  binary(name, a, b) {
    if (isKnown(a) && isKnown(b)) return known(FOLD[name](a.value, b.value) & MAX);
    switch (name) {
      case "ADD":
        if (isKnown(a) && a.value === 0n) return b;
        if (isKnown(b) && b.value === 0n) return a;
        return this.#narrow("bvadd", a, b, lesser(a.max + b.max, MAX));
      case "MUL":
        return this.#narrow("bvmul", a, b, lesser(a.max * b.max, MAX));
      case "SUB":
        if (isKnown(b) && b.value === 0n) return a;
        return this.#wide("bvsub", a, b, MAX);
      case "DIV":
        // Solidity has checked the divisor; by 0 the machine answers 0 and SMT-LIB all ones.
        if (!isKnown(b) || b.value === 0n) return this.#quotient(a, b);
        return this.#narrow("bvudiv", a, b, a.max / b.value);
      case "MOD":
        if (!isKnown(b) || b.value === 0n) throw new Error("a remainder by a divisor that is not constant");
        return this.#narrow("bvurem", a, b, lesser(a.max, b.value - 1n));
      case "AND":
        return this.#and(a, b);
      case "OR":
        if (isKnown(a) && a.value === 0n) return b;
        if (isKnown(b) && b.value === 0n) return a;
        return this.#wide("bvor", a, b, (1n << bitsOf(greater(a.max, b.max))) - 1n);
      case "XOR":
        return this.#wide("bvxor", a, b, (1n << bitsOf(greater(a.max, b.max))) - 1n);
      case "SHL":
        if (!isKnown(a)) throw new Error("a shift by a distance that is not constant");
        return this.#wide("bvshl", b, a, lesser(b.max << a.value, MAX));
      case "SHR":
        if (!isKnown(a)) throw new Error("a shift by a distance that is not constant");
        return this.#wide("bvlshr", b, a, b.max >> a.value);
      case "BYTE":
        if (!isKnown(a)) throw new Error("a byte at a place that is not constant");
        return this.binary("AND", this.binary("SHR", known(248n - 8n * a.value), b), known(255n));
      case "LT":
        return this.flag(`(bvult ${this.text(a)} ${this.text(b)})`);
      case "GT":
        return this.flag(`(bvugt ${this.text(a)} ${this.text(b)})`);
      case "SLT":
        return this.flag(`(bvslt ${this.text(a)} ${this.text(b)})`);
      case "SGT":
        return this.flag(`(bvsgt ${this.text(a)} ${this.text(b)})`);
      case "EQ":
        return this.flag(`(= ${this.text(a)} ${this.text(b)})`);
      default:
        throw new Error(`the instruction ${name} is not modelled`);
    }
  }

  #quotient(a, b) {
    const quotient = this.#wide("bvudiv", a, b, MAX);
    const zero = this.text(known(0n));
    return this.#define(`(ite (= ${this.text(b)} ${zero}) ${zero} ${this.text(quotient)})`, a.max);
  }

  #and(a, b) {
    const [mask, other] = isKnown(a) ? [a, b] : [b, a];
    if (isKnown(mask)) {
      if (mask.value === 0n) return mask;
      // A mask of low bits that the word does not exceed.
      if ((mask.value & (mask.value + 1n)) === 0n && other.max <= mask.value) return other;
    }
    return this.#wide("bvand", a, b, (1n << bitsOf(lesser(a.max, b.max))) - 1n);
  }

  isZero(word) {
    if (isKnown(word)) return known(word.value === 0n ? 1n : 0n);
    return this.flag(`(not ${this.truth(word)})`);
  }

  not(word) {
    return isKnown(word) ? known(MAX ^ word.value) : this.#define(`(bvnot ${this.text(word)})`, MAX);
  }
}

const FOLD = {
  ADD: (a, b) => a + b,
  MUL: (a, b) => a * b,
  SUB: (a, b) => a - b + WORD,
  DIV: (a, b) => (b === 0n ? 0n : a / b),
  MOD: (a, b) => (b === 0n ? 0n : a % b),
  AND: (a, b) => a & b,
  OR: (a, b) => a | b,
  XOR: (a, b) => a ^ b,
  SHL: (a, b) => (a > 255n ? 0n : b << a),
  SHR: (a, b) => (a > 255n ? 0n : b >> a),
  BYTE: (a, b) => (a > 31n ? 0n : (b >> (248n - 8n * a)) & 255n),
  LT: (a, b) => (a < b ? 1n : 0n),
  GT: (a, b) => (a > b ? 1n : 0n),
  SLT: (a, b) => (signed(a) < signed(b) ? 1n : 0n),
  SGT: (a, b) => (signed(a) > signed(b) ? 1n : 0n),
  EQ: (a, b) => (a === b ? 1n : 0n),
};

const BINARY = new Map([
  ...[0x01, 0x02, 0x03, 0x04, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17, 0x18, 0x1a, 0x1b, 0x1c].map((code, i) => [
    code,
    ["ADD", "MUL", "SUB", "DIV", "MOD", "LT", "GT", "SLT", "SGT", "EQ", "AND", "OR", "XOR", "BYTE", "SHL", "SHR"][i],
  ]),
]);

/**
 * Follows every code path of one function.
 * @param code runtime bytecode
 * @param selector four bytes, a number
 * @param widths bits of each argument; the ABI decoder refuses more
 * @param isPossible whether the Boolean terms can hold together; prunes branches
 * @param terms how words are written for the solver: as bit-vectors unless given
 * @returns the terms, and for each path its conditions and end: "return", "revert", or the code of a panic
 */
async function pathsOf({ code, selector, widths, isPossible, terms = new Terms() }) {
  const args = widths.map((bits, i) => terms.argument(`a${i}`, bits));
  const ends = [];
  const open = [{ pc: 0, stack: [], memory: new Map(), conditions: [] }];
  while (open.length > 0) {
    const state = open.pop();
    const { end, branch } = run({ code, selector, args, terms, state });
    if (end !== undefined) {
      ends.push({ conditions: state.conditions, end });
      continue;
    }
    const test = terms.truth(branch.condition);
    for (const [taken, pc] of [
      [test, branch.target],
      [`(not ${test})`, state.pc],
    ]) {
      const conditions = [...state.conditions, taken];
      if (await isPossible(terms, conditions))
        open.push({ pc, stack: [...state.stack], memory: new Map(state.memory), conditions });
    }
  }
  return { terms, ends };
}

/** Runs until the path ends, or to a branch that depends on an argument. */
function run({ code, selector, args, terms, state }) {
  const { stack, memory } = state;
  const pop = () => stack.pop();
  const number = (word, what) => {
    if (!isKnown(word)) throw new Error(`${what} depends on an argument`);
    return Number(word.value);
  };
  for (;;) {
    const op = code[state.pc];
    state.pc += 1;
    const binary = BINARY.get(op);
    if (binary) stack.push(terms.binary(binary, pop(), pop()));
    else if (op === 0x15) stack.push(terms.isZero(pop()));
    else if (op === 0x19) stack.push(terms.not(pop()));
    else if (op === 0x34) stack.push(known(0n));
    else if (op === 0x36) stack.push(known(BigInt(4 + 32 * args.length)));
    else if (op === 0x35) stack.push(argumentAt(number(pop(), "a place in calldata"), selector, args));
    else if (op === 0x50) pop();
    else if (op === 0x51) {
      const at = number(pop(), "an address in memory");
      if (!memory.has(at)) throw new Error(`memory at ${at} is read before it is written`);
      stack.push(memory.get(at));
    } else if (op === 0x52) memory.set(number(pop(), "an address in memory"), pop());
    else if (op === 0x56) state.pc = number(pop(), "a jump");
    else if (op === 0x57) {
      const [target, condition] = [number(pop(), "a jump"), pop()];
      if (!isKnown(condition)) return { branch: { target, condition } };
      if (condition.value !== 0n) state.pc = target;
    } else if (op === 0x5b) continue;
    else if (op >= 0x5f && op <= 0x7f) {
      const length = op - 0x5f;
      const bytes = code.subarray(state.pc, state.pc + length);
      stack.push(known(length === 0 ? 0n : BigInt(`0x${Buffer.from(bytes).toString("hex")}`)));
      state.pc += length;
    } else if (op >= 0x80 && op <= 0x8f) stack.push(stack[stack.length - (op - 0x7f)]);
    else if (op >= 0x90 && op <= 0x9f) {
      const [top, other] = [stack.length - 1, stack.length - (op - 0x8e)];
      [stack[top], stack[other]] = [stack[other], stack[top]];
    } else if (op === 0x00 || op === 0xf3) return { end: "return" };
    else if (op === 0xfd) return { end: panicOf(number(pop(), "a revert"), memory) ?? "revert" };
    else throw new Error(`the instruction 0x${(op ?? 0).toString(16)} is not modelled`);
  }
}

function argumentAt(at, selector, args) {
  if (at === 0) return known(BigInt(selector) << 224n); // only its first four bytes are used
  const word = args[(at - 4) / 32];
  if (!word) throw new Error(`calldata at ${at} is no argument`);
  return word;
}

/** The code of `Panic(uint256)`, when memory at `at` has one. */
function panicOf(at, memory) {
  const first = memory.get(at);
  if (first === undefined || !isKnown(first) || first.value >> 224n !== 0x4e487b71n) return undefined;
  return `panic 0x${memory.get(at + 4).value.toString(16)}`;
}

module.exports = { FOLD, pathsOf };
