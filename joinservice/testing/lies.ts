import { decodeEnrolmentRequest, encodeEnrolmentRequest } from '../../internal/attestation/enrol/index.ts';
import { ticketKeysStatement } from '../../internal/crypto/index.ts';
import { createRequest, generateKeyPem, pubKeyOf } from '../../internal/pki/index.ts';
import type { TestHardware, TestMachine } from './test-machine.ts';

/** Shows the evidence of its first session in every later one. */
export function replaying(real: TestHardware): TestHardware {
  let shown: Promise<Uint8Array> | undefined;
  const { variant } = real.issuer;
  return {
    ...real,
    issuer: { variant, issue: (binding, signal) => (shown ??= real.issuer.issue(binding, signal)) },
  };
}

/** Enrols its own attestation key with the endorsement key of another machine, whose challenges it can't open. */
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

/** Keys for a ticket by a kubelet that names another node in its requests, signed by its machine for node `nodeId`. */
export async function keysInTheNameOf(
  name: string,
  { machine, nodeId }: { readonly machine: TestMachine; readonly nodeId: string },
) {
  const [client, serving] = [generateKeyPem(), generateKeyPem()];
  const made = {
    kubeletClientCsr: await createRequest(client, `system:node:${name}`),
    kubeletServingCsr: await createRequest(serving, `system:node:${name}`),
    sealingPublicKey: pubKeyOf(machine.sealingKeyPem),
  };
  return { ...made, signature: machine.sign(ticketKeysStatement({ nodeId, ...made })) };
}
