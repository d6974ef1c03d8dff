import type { MessageInitShape } from '@bufbuild/protobuf';
import { createPrivateKey, sign } from 'node:crypto';
import { dirname } from 'node:path';
import { encodeEnrolmentRequest } from '../../internal/attestation/enrolment/index.ts';
import { encodeTicketStatement, type TicketStatement } from '../../internal/crypto/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  createCertificateRequest,
  generateKeyPem,
  MAX_PEM_BYTES,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { isControlPlane, type Role } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { TicketKeysSchema } from '../../joinservice/joinproto/gen/join_pb.js';
import type { MachineEvidence } from '../attest/index.ts';
import { JoinClientError } from './errors.ts';

/** The part of a ticket request that is known only once its session is open. */
export interface TicketQuestion extends Pick<
  TicketStatement,
  'clusterId' | 'address' | 'roles' | 'session' | 'timeMs'
> {
  /** Current certificate of a member; empty during a join. */
  readonly nodeCertPem: string;
}

/** The signed request for a ticket. */
export type TicketKeys = MessageInitShape<typeof TicketKeysSchema>;

/** The keys that a ticket is requested for, and the key that decrypts it. */
export interface TicketKeyRing {
  readonly clientPubKeyDer: Uint8Array;
  readonly servingPubKeyDer: Uint8Array;
  /** Used for one request only. A ticket is decrypted at once, or requested again with a new key. */
  readonly sealingKeyPem: Secret<string>;
  /** Creates the request: signed with the machine key and bound to evidence of the machine. */
  readonly createRequest: (question: TicketQuestion, signal: AbortSignal) => Promise<TicketKeys>;
}

/** Loads or creates the kubelet keys. They stay the same, so that a lost ticket can be requested again. */
export async function ensureTicketKeys(
  files: FilePort,
  options: {
    /** Paths of the kubelet's private keys. They are created here and never leave the machine. */
    readonly at: { readonly clientKey: string; readonly servingKey: string };
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
        opensHpke: true,
      };
    },
  };
}

async function ensureKey(files: FilePort, path: string): Promise<Secret<string>> {
  await files.makeDirectory(dirname(path));
  await files.createExclusive(path, generateKeyPem().reveal());
  const pem = await readText(files, path, MAX_PEM_BYTES);
  if (pem === undefined) throw new JoinClientError('joinclient-protocol', `${path} not found`);
  return new Secret(pem);
}
