/**
 * Sends each request to a local node on its own connection. The node closes a connection that was idle for five
 * seconds. On a busy machine that crosses a request in flight, which then fails although nothing is wrong.
 */
import { Agent } from "node:http";
import { FetchRequest } from "ethers";

const getUrl = FetchRequest.createGetUrlFunc({ agent: new Agent({ keepAlive: false }) });

export function oneShot(url: string): FetchRequest {
  const request = new FetchRequest(url);
  request.getUrlFunc = getUrl;
  return request;
}
