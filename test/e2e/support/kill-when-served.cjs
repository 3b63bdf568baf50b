// Loaded before a program: kills it, as kill -9 does, when a provider answers a paid request and before the program
// learns of it. The money has moved, and the answer is lost.
const send = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const request = new Request(input, init);
  const isPaid = request.headers.has("X-PAYMENT");
  const response = await send(request);
  if (isPaid && response.ok) process.kill(process.pid, "SIGKILL");
  return response;
};
