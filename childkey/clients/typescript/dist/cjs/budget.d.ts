/** The settings of a {@link Budget}. */
export interface BudgetOptions {
    /** What a success puts back: more than 0, at most 1. The default is 0.12. */
    readonly ratio?: number;
    /** How many retries there are at first, and the most that can be saved. The default is 100. Infinity switches the budget off. */
    readonly reserve?: number;
    /** What a second puts back. The default is 0.2. */
    readonly refill?: number;
}
/**
 * Bounds the retries to each service over all calls, so that they do not bury a service that is down. A retry after a
 * refused connection takes nothing, so that all calls outlast a restart. The more calls were refused since the last success,
 * the longer they wait, up to the cap of the backoff.
 */
export declare class Budget {
    #private;
    /** What a success puts back. */
    readonly ratio: number;
    /** @throws {ConfigError} */
    constructor(options?: BudgetOptions);
}
