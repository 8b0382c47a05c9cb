"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.createFetch = createFetch;
const call_js_1 = require("./call.js");
const config_js_1 = require("./config.js");
const run_js_1 = require("./run.js");
/**
 * Returns a `fetch` that sends a call until its outcome is known, every time with the same key and the same bytes.
 *
 * It resolves to a 2xx answer, and rejects with a {@link RetryError} otherwise. The answer's body has been read. Before
 * anything is sent, a bad call rejects with an {@link InputError}, an {@link InvalidCallError} or a {@link ConfigError}.
 * The signal of a call ends its running attempt or wait. Redirects are not followed. Calls may run side by side.
 *
 * @throws {ConfigError} if an option is out of range.
 */
function createFetch(options = {}) {
    const config = (0, config_js_1.configure)(options);
    return async (input, init = {}) => {
        const begun = config.clock();
        return new run_js_1.Run(config, await (0, call_js_1.freeze)(input, init), begun).loop();
    };
}
