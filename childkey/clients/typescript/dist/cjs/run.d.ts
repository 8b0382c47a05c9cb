import type { Call } from './call.js';
import { type Config } from './config.js';
import { type RetryResponse } from './error.js';
export declare class Run {
    #private;
    /** Begun is when the call began, on the clock of config. */
    constructor(config: Config, call: Call, begun: number);
    loop(): Promise<RetryResponse>;
}
