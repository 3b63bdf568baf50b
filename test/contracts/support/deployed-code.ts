const isInstrumented = process.env.SOLIDITY_COVERAGE === "true";

/**
 * A test of the very code that is deployed: its size, or how far its gas goes. Coverage instruments the contracts, which
 * makes them three times as large and dearer, and so leaves these out.
 */
export function itOfDeployedCode(title: string, act: Mocha.AsyncFunc): Mocha.Test {
  // Mocha sets `it` for each file: one that is taken when this module loads belongs to the first of them.
  return (isInstrumented ? it.skip : it)(title, act);
}

/**
 * A test of many cases, most of whose steps others take too. Coverage traces each step of the EVM, which takes ten times
 * as long, and leaves these out.
 */
export function itOfManyCases(title: string, act: Mocha.AsyncFunc): Mocha.Test {
  return itOfDeployedCode(title, act);
}
