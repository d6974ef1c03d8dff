import { NvCounter } from '../../internal/tpm/index.ts';

/**
 * The NV counter that says which record of the state disk is the current one: after an increment every record with a lower
 * sequence is refused.
 */
export const diskCounter = new NvCounter(0x0180636d, 'the counter of the state disk');
