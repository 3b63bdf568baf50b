/** Pages whose code is loaded when they are first opened. */
import type { FunctionComponent } from "preact";
import { useState } from "preact/hooks";
import { ApiProblem } from "./api";
import { CODE_MISSING, Shown } from "./parts";
import { type Loaded, useLoad } from "./use";

/** @throws ApiProblem where the service has this version no more, or does not answer */
async function loaded<T>(code: Promise<T>): Promise<T> {
  return code.catch(() => {
    throw new ApiProblem(0, CODE_MISSING, "The service may have been updated meanwhile: load the page again.");
  });
}

export function useCode<T>(name: string, load: () => Promise<T>): Loaded<T> {
  return useLoad({ name, load: () => loaded(load()), signOut: () => undefined });
}

export function later<P extends object>(load: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  let known: FunctionComponent<P> | undefined;
  const Coming: FunctionComponent<P> = (props) => {
    const code = useCode("page", async () => {
      known = await load();
      return known;
    });
    return <Shown of={code}>{(Page) => <Page {...props} />}</Shown>;
  };
  return (props) => {
    // Once mounted it stays: another component in its place would forget its state.
    const [Page] = useState(() => known ?? Coming);
    return <Page {...props} />;
  };
}
