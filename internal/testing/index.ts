/** Doubles that work, for tests only. Never imported by shipped code. */
export { FakeClock, settle } from './fake-clock.ts';
export { FakeTsm, type FakeTsmOptions } from './fake-tsm.ts';
export { FakeIssuer, FakeValidator, type HmacEvidenceOptions } from './hmac-evidence.ts';
export { createMemoryLogger } from './memory-logger.ts';
export { createTcpPair, type TcpPair } from './tcp-pair.ts';
export { superviseForTest, type SupervisedOptions, type SupervisedTree } from './supervised.ts';
export { untilAborted } from './until-aborted.ts';
export { RawAtls, rawEvidence, rawFrame, rawHello, type RawAtlsOptions, type RawFrame } from './raw-atls.ts';
export { createTestIdentity, type TestIdentity } from './test-identity.ts';
export {
  ATLS_CONTEXT,
  codeOf,
  createAtlsEnds,
  MACHINE_KEY,
  type AtlsEnds,
  type AtlsEndsOptions,
} from './atls-ends.ts';
