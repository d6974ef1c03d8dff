/**
 * A test machine that joins a cluster and can send false data. Used by the tests of this program and by
 * stories that attack it.
 */
export { endorsedBy, keysNaming, replaying } from './attacks.ts';
export { TestMachine } from './test-machine.ts';
export { createSignerClient } from './signer-client.ts';
