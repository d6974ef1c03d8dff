/**
 * Helpers for tests of attested TLS: cheap evidence, two honest ends, and a malicious end. This directory has its own
 * entry point, because it imports gRPC and certificates.
 */
export { ATLS_CONTEXT, codeOf, createAtlsEnds, MACHINE_KEY, type AtlsEnds } from './ends.ts';
export { FakeIssuer, FakeValidator } from './hmac-evidence.ts';
export { createTestIdentity, type TestIdentity } from './identity.ts';
export { RawAtls, rawEvidence, rawFrame, rawHello, type RawAtlsOptions } from './raw-atls.ts';
export { Echo } from './echo.ts';
