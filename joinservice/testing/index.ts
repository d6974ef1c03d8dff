/** A machine's end of joining, for tests of this program only. */
export { TestMachine, type TestHardware, type TestHello } from './test-machine.ts';
