import { createPrivateKey, sign } from 'node:crypto';
import { encodeEnrolmentRequest } from '../../internal/attestation/enrolment/index.ts';
import { encodeTicketStatement, type TicketStatement } from '../../internal/crypto/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { createCertificateRequest, generateKeyPem, pubKeyDerOf } from '../../internal/pki/index.ts';
import { isControlPlane, type Role } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { MachineEvidence, TicketEvidence } from '../attest/index.ts';
import { JoinClientError } from './errors.ts';

const MAX_PEM_BYTES = 16 * 1024;

/** Paths of the kubelet's private keys. They are created here and never leave the machine. */
export interface KubeletKeyFiles {
  readonly clientKey: string;
  readonly servingKey: string;
}

/** The part of a ticket request that is known only in its session. */
export interface TicketQuestion extends Pick<
  TicketStatement,
  'clusterId' | 'address' | 'roles' | 'session' | 'timeMs'
> {
  /** Current certificate of a member; empty during a join. */
  readonly nodeCertPem: string;
}

/** `TicketKeys` of the contract. */
export interface SignedTicketKeys {
  readonly kubeletClientCsr: Uint8Array;
  readonly kubeletServingCsr: Uint8Array;
  readonly sealingPublicKey: Uint8Array;
  readonly address: string;
  readonly roles: string[];
  readonly timeMs: bigint;
  readonly signature: Uint8Array;
  readonly evidence: TicketEvidence[];
  readonly nodeCertificatePem: string;
  readonly enrolment: Uint8Array;
}

/** The keys that a ticket is requested for, and the key that decrypts it. */
export interface TicketKeyRing {
  readonly clientPubKeyDer: Uint8Array;
  readonly servingPubKeyDer: Uint8Array;
  /** Used for one request only. A ticket is decrypted at once, or requested again with a new key. */
  readonly sealingKeyPem: Secret<string>;
  /** Creates the request: signed with the machine key and bound to evidence of the machine. */
  readonly createRequest: (question: TicketQuestion, signal: AbortSignal) => Promise<SignedTicketKeys>;
}

/** Loads or creates the kubelet keys. They stay the same, so that a lost ticket can be requested again. */
export async function ensureTicketKeys(
  files: FilePort,
  options: {
    readonly at: KubeletKeyFiles;
    readonly nodeId: string;
    readonly machineKeyPem: Secret<string>;
    readonly evidence: Pick<MachineEvidence, 'forTicket' | 'readEnrolment'>;
  },
): Promise<TicketKeyRing> {
  const { at, nodeId, machineKeyPem, evidence } = options;
  const client = await ensureKey(files, at.clientKey);
  const serving = await ensureKey(files, at.servingKey);
  const sealingKeyPem = generateKeyPem();
  const keys = {
    // The signer decides the names; the CSR only proves possession of the key.
    kubeletClientCsr: await createCertificateRequest(client, nodeId),
    kubeletServingCsr: await createCertificateRequest(serving, nodeId),
    sealingPublicKey: pubKeyDerOf(sealingKeyPem),
  };
  return {
    clientPubKeyDer: pubKeyDerOf(client),
    servingPubKeyDer: pubKeyDerOf(serving),
    sealingKeyPem,
    createRequest: async (question, signal) => {
      const nodePubKeyDer = pubKeyDerOf(machineKeyPem);
      const statement = encodeTicketStatement({ ...question, ...keys, nodePubKeyDer });
      const wantsKeys = isControlPlane(question.roles as readonly Role[]);
      const enrolment = wantsKeys ? await evidence.readEnrolment(signal) : undefined;
      const machineKey = createPrivateKey(machineKeyPem.reveal());
      return {
        ...keys,
        address: question.address,
        roles: [...question.roles],
        timeMs: BigInt(question.timeMs),
        nodeCertificatePem: question.nodeCertPem,
        enrolment: enrolment === undefined ? new Uint8Array() : encodeEnrolmentRequest(enrolment),
        signature: new Uint8Array(sign(undefined, statement, machineKey)),
        evidence: [...(await evidence.forTicket(statement, signal))],
      };
    },
  };
}

async function ensureKey(files: FilePort, path: string): Promise<Secret<string>> {
  await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
  await files.createExclusive(path, generateKeyPem().reveal());
  const bytes = await files.read(path, MAX_PEM_BYTES);
  if (bytes === undefined) throw new JoinClientError('joinclient-protocol', `${path} not found`);
  return new Secret(Buffer.from(bytes).toString('utf8'));
}
