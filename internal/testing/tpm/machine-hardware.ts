import type { KeyObject } from 'node:crypto';
import { DEFAULT_LOCK_PCR, lockDigest, type Issuer } from '../../attestation/index.ts';
import {
  answerChallenge,
  decodeChallenge,
  decodeEnrolmentRequest,
  encodeEnrolmentRequest,
  endorsementKeyIdOf,
  readEnrolmentRequest,
} from '../../attestation/enrolment/index.ts';
import { MachineKeyIssuer } from '../../attestation/machinekey/index.ts';
import { createTpmIssuer } from '../../attestation/tpm/index.ts';
import { Secret } from '../../secret/index.ts';
import { extendPcr, lockCounter, readPcrs, type Tpm } from '../../tpm/index.ts';

const never = new AbortController().signal;
const QUOTED = Array.from({ length: 16 }, (_, pcr) => pcr);

/** The hardware with which a machine proves its identity. */
export interface MachineHardware {
  readonly issuer: Issuer;
  readonly enrolment: () => Promise<Uint8Array>;
  readonly answer: (challenge: Uint8Array, session: Uint8Array) => Promise<Uint8Array>;
  /** Makes later evidence show that the machine is bound to a cluster. */
  readonly lock: (clusterId: string) => Promise<void>;
}

/** A machine without a TPM, which has only its key. */
export function keyHardware(privKey: KeyObject): MachineHardware {
  return {
    issuer: new MachineKeyIssuer({ privKey: new Secret(privKey) }),
    enrolment: () => Promise.resolve(new Uint8Array()),
    answer: () => Promise.reject(new Error('a machine without a TPM was challenged')),
    lock: () => Promise.resolve(),
  };
}

/**
 * A machine with a real or software TPM. `attestationKeySecret`: the secret with which an agent creates its
 * attestation key.
 */
export function tpmHardware(tpm: Tpm, attestationKeySecret?: Secret<Uint8Array>): MachineHardware {
  const machine = { tpm, ...(attestationKeySecret === undefined ? {} : { attestationKeySecret }) };
  return {
    issuer: createTpmIssuer({ ...machine, pcrs: QUOTED, lockCounter: true }),
    enrolment: async () => encodeEnrolmentRequest(await readEnrolmentRequest(machine, never)),
    answer: (challenge, session) => answerChallenge(machine, decodeChallenge(challenge), session, never),
    lock: (clusterId) =>
      tpm.use(never, async (connection, signal) => {
        const selection = { hash: 'sha256', pcrs: [DEFAULT_LOCK_PCR] } as const;
        const before = (await readPcrs(connection, selection, signal)).get(DEFAULT_LOCK_PCR);
        if (before?.some((byte) => byte !== 0) === true) return;
        await lockCounter.start(connection, signal);
        await lockCounter.increment(connection, signal);
        const digest = lockDigest(clusterId);
        await extendPcr(connection, { pcr: DEFAULT_LOCK_PCR, hash: 'sha256', digest }, signal);
      }),
  };
}

/** "tpm-ek:…", as an inventory lists it. */
export async function tpmIdentity(tpm: Tpm): Promise<string> {
  const { endorsementKey } = decodeEnrolmentRequest(await tpmHardware(tpm).enrolment());
  return `tpm-ek:${endorsementKeyIdOf(endorsementKey)}`;
}
