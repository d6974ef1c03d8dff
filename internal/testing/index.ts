/** Working test doubles. Shipped code never imports them. */
export { FakeClock, settle, settleUntil } from './fake-clock.ts';
export { FakeTsm, type FakeTsmOptions } from './tpm/fake-tsm.ts';
export { createMemoryLogger } from './memory-logger.ts';
export { TcpProxy } from './network/tcp-proxy.ts';
export { createTcpPair, type TcpPair } from './network/tcp-pair.ts';
export { superviseForTest, type SupervisedOptions, type SupervisedTree } from './supervised.ts';
export { untilAborted } from '../cleanup/index.ts';
export { findEtcdBinary } from './etcd/etcd-binary.ts';
export {
  configurationWrite,
  recordClusterSettings,
  type TestClusterSettings,
} from './cluster/cluster-settings.ts';
export {
  JoinPrograms,
  type JoinEnvironment,
  type RecordedMessage,
  type ProgramName,
} from './cluster/join-programs.ts';
export { keyHardware, tpmHardware, tpmIdentity, type MachineHardware } from './tpm/machine-hardware.ts';
export { findFreePort } from './network/free-port.ts';
export { TestEtcd, untilServing, type TestMember } from './etcd/test-etcd.ts';
export { ProcessUnits } from './host/process-units.ts';
export { MemoryEtcd } from './etcd/memory-etcd.ts';
export { everyFault, FaultyFiles, SimulatedCrash, type Fault, type FaultCase } from './host/faulty-files.ts';
export { MemoryFiles } from './host/memory-files.ts';
export { TestCluster, type TestPeer } from './cluster/test-cluster.ts';
export { TestOwner } from './cluster/test-owner.ts';
export { FakeCommands, type CommandAnswer } from './host/fake-commands.ts';
export { FakeUnits } from './host/fake-units.ts';
export { createSoftKey, FakeTpm, type FakeTpmOptions, type SoftKey } from './tpm/fake-tpm.ts';
export { type FuzzResult, type FuzzTarget } from './fuzz.ts';
export { createSwtpmFactory, type Swtpm, type SwtpmFactory } from './tpm/swtpm.ts';
export { elfFile, type ElfFixture } from './build/elf-file.ts';
export { goProgram } from './build/go-program.ts';
export { fakeProgram, FakeBuildTools } from './build/fake-build-tools.ts';
export { closeOpened, opened } from './host/opened.ts';
export { temporaryDirectory } from './host/temporary-directory.ts';
export { zipArchive } from './build/zip-archive.ts';
export { FileServer } from './network/file-server.ts';
export { programOfBundle } from './build/bundle-program.ts';
