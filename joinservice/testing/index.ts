/** A machine's end of joining, for tests of this program only. */
export {
  hardwareOf,
  keyHardwareOf,
  TestMachine,
  TestSession,
  type TestHardware,
  type TestHello,
} from './test-machine.ts';
