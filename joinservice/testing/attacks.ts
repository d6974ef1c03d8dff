import {
  decodeEnrolmentRequest,
  encodeEnrolmentRequest,
} from '../../internal/attestation/enrolment/index.ts';
import { createCertificateRequest, generateKeyPem } from '../../internal/pki/index.ts';
import type { TestHardware, TestSession } from './test-machine.ts';

/** Hardware that shows the evidence of the first session again in every later session. */
export function replaying(real: TestHardware): TestHardware {
  let shown: Promise<Uint8Array> | undefined;
  const { variant } = real.issuer;
  return {
    ...real,
    issuer: { variant, issue: (binding, signal) => (shown ??= real.issuer.issue(binding, signal)) },
  };
}

/** Enrols its own attestation key with the endorsement key of another machine, whose challenges it cannot open. */
export function endorsedBy(own: TestHardware, others: TestHardware): TestHardware {
  return {
    ...own,
    enrolment: async () => {
      const [mine, theirs] = [
        decodeEnrolmentRequest(await own.enrolment()),
        decodeEnrolmentRequest(await others.enrolment()),
      ];
      return encodeEnrolmentRequest({ ...theirs, attestationKey: mine.attestationKey });
    },
    answer: () => Promise.resolve(new Uint8Array(32)),
  };
}

/**
 * Keys for a ticket of a kubelet that names another node in its certificate requests; the machine signs them
 * nevertheless.
 */
export async function keysNaming(name: string, session: TestSession, address?: string) {
  const kubelet = async (): Promise<Uint8Array> =>
    createCertificateRequest(generateKeyPem(), `system:node:${name}`);
  const made = { kubeletClientCsr: await kubelet(), kubeletServingCsr: await kubelet() };
  return { ...(await session.keys(address === undefined ? {} : { address }, made)), ...made };
}
