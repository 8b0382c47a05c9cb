/**
 * Has act run once signal is aborted, and returns a function that prevents it. A signal that is aborted already runs
 * nothing.
 */
export declare function onAbort(signal: AbortSignal | undefined, act: () => void): () => void;
