/**
 * What tests of attested TLS need: evidence at no cost, two honest ends, and an end without scruples. A door of its
 * own, because it brings gRPC and certificates along.
 */
export {
  ATLS_CONTEXT,
  codeOf,
  createAtlsEnds,
  MACHINE_KEY,
  type AtlsEnds,
  type AtlsEndsOptions,
} from './ends.ts';
export { FakeIssuer, FakeValidator, type HmacEvidenceOptions } from './hmac-evidence.ts';
export { createTestIdentity, type TestIdentity } from './identity.ts';
export { RawAtls, rawEvidence, rawFrame, rawHello, type RawAtlsOptions, type RawFrame } from './raw-atls.ts';
export { Echo, type EchoService } from './echo.ts';
