/** Doubles that work, for tests only. Never imported by shipped code. */
export { FakeClock, settle } from './fake-clock.ts';
export { FakeTsm, type FakeTsmOptions } from './fake-tsm.ts';
export { createMemoryLogger } from './memory-logger.ts';
export { createTcpPair, type TcpPair } from './tcp-pair.ts';
export { superviseForTest, type SupervisedOptions, type SupervisedTree } from './supervised.ts';
export { untilAborted } from './until-aborted.ts';
export { findEtcdBinary } from './etcd-binary.ts';
export { findFreePort } from './free-port.ts';
export { TestEtcd, untilServing, type TestMember } from './test-etcd.ts';
export { ProcessUnits } from './process-units.ts';
export { MemoryEtcd } from './memory-etcd.ts';
export { everyFault, FaultyFiles, SimulatedCrash, type Fault, type FaultCase } from './faulty-files.ts';
export { MemoryFiles } from './memory-files.ts';
export { TestCluster, type TestPeer } from './test-cluster.ts';
export { FakeCommands, type CommandAnswer } from './fake-commands.ts';
export { FakeUnits } from './fake-units.ts';
