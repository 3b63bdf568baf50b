/**
 * A test of the very code that is deployed: its size, or how far its gas goes. Coverage instruments the contracts, which
 * makes them three times as large and dearer, and so leaves these out.
 */
export const itOfDeployedCode = process.env.SOLIDITY_COVERAGE === "true" ? it.skip : it;
