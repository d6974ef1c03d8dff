/** A machine's end of joining, which can be told to lie: for tests of this program, and for stories that attack it. */
export { endorsedBy, keysNaming, replaying } from './attacks.ts';
export { TestMachine, type TestHardware, type TestHello, type TestSession } from './test-machine.ts';
export { createSignerClient } from './signer-client.ts';
