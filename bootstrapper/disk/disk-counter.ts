import { NvCounter } from '../../internal/tpm/index.ts';

/**
 * The NV counter that says which record of the state disk is the current one: after an increment every record with a lower
 * sequence is refused.
 */
export const diskCounter = new NvCounter(0x0180636d, 'the counter of the state disk');

/**
 * The NV counter that ends sealed shares: each is sealed for its value at that time, or for the next one if it replaces earlier shares. After the
 * increment the TPM unseals none of the earlier ones.
 */
export const keyCounter = new NvCounter(0x01806370, 'the counter of keys of the state disk');
