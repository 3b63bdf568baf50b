/**
 * Requests to a node of one's own on connections of their own. The node closes one that was idle for five seconds; on a busy
 * machine that crosses a request on its way, which then fails though nothing is wrong.
 */
import { Agent } from "node:http";
import { FetchRequest } from "ethers";

const getUrl = FetchRequest.createGetUrlFunc({ agent: new Agent({ keepAlive: false }) });

export function oneShot(url: string): FetchRequest {
  const request = new FetchRequest(url);
  request.getUrlFunc = getUrl;
  return request;
}
