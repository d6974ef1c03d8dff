/** A machine's end of joining, and curators without a wire, for tests of this program only. */
export {
  hardwareOf,
  keyHardwareOf,
  TestMachine,
  TestSession,
  type TestHardware,
  type TestHello,
} from './test-machine.ts';
export { nodeIdOf, TestCurators, type CuratorHandlers } from './test-curators.ts';
