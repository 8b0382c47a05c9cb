"use strict";
// One listener for each signal. Node warns of a leak where a signal has more than ten, and many calls may share one.
Object.defineProperty(exports, "__esModule", { value: true });
exports.onAbort = onAbort;
const actions = new WeakMap();
/**
 * Has act run once signal is aborted, and returns a function that prevents it. A signal that is aborted already runs
 * nothing.
 */
function onAbort(signal, act) {
    if (signal === undefined) {
        return () => undefined;
    }
    const known = actions.get(signal);
    const all = known ?? new Set();
    all.add(act);
    if (known === undefined) {
        actions.set(signal, all);
        signal.addEventListener('abort', () => [...all].forEach((one) => one()), { once: true });
    }
    return () => void all.delete(act);
}
