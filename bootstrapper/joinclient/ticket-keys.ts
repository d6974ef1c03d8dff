import { createPrivateKey, sign } from 'node:crypto';
import { ticketKeysStatement } from '../../internal/crypto/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { createRequest, generateKeyPem, pubKeyOf } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { JoinClientError } from './errors.ts';

const MAX_PEM_BYTES = 16 * 1024;

/** Where the kubelet's private keys lie. They are made here, and never leave the machine. */
export interface KubeletKeyFiles {
  readonly clientKey: string;
  readonly servingKey: string;
}

/** The keys that a ticket is for: what is asked with, and what opens the answer. */
export interface TicketKeyRing {
  readonly clientPubKeyDer: Uint8Array;
  readonly servingPubKeyDer: Uint8Array;
  /** Lives for one question: what was sealed to it is opened at once or asked for again. */
  readonly sealingKeyPem: Secret<string>;
  /** `TicketKeys` of the contract. */
  readonly asked: {
    readonly kubeletClientCsr: Uint8Array;
    readonly kubeletServingCsr: Uint8Array;
    readonly sealingPublicKey: Uint8Array;
    readonly signature: Uint8Array;
  };
}

/** The same kubelet keys each time, so that a ticket whose answer was lost can be asked for again. */
export async function ensureTicketKeys(
  files: FilePort,
  options: {
    readonly at: KubeletKeyFiles;
    readonly nodeId: string;
    readonly machineKeyPem: Secret<string>;
  },
): Promise<TicketKeyRing> {
  const { at, nodeId, machineKeyPem } = options;
  const client = await ensureKey(files, at.clientKey);
  const serving = await ensureKey(files, at.servingKey);
  const sealingKeyPem = generateKeyPem();
  const keys = {
    // Names are the signer's to decide; a request proves possession and nothing else.
    kubeletClientCsr: await createRequest(client, nodeId),
    kubeletServingCsr: await createRequest(serving, nodeId),
    sealingPublicKey: pubKeyOf(sealingKeyPem),
  };
  const statement = ticketKeysStatement({ nodeId, ...keys });
  const signature = new Uint8Array(sign(undefined, statement, createPrivateKey(machineKeyPem.reveal())));
  return {
    clientPubKeyDer: pubKeyOf(client),
    servingPubKeyDer: pubKeyOf(serving),
    sealingKeyPem,
    asked: { ...keys, signature },
  };
}

async function ensureKey(files: FilePort, path: string): Promise<Secret<string>> {
  await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
  await files.createExclusive(path, generateKeyPem().reveal());
  const bytes = await files.read(path, MAX_PEM_BYTES);
  if (bytes === undefined) throw new JoinClientError('joinclient-protocol', `reading ${path}: it is gone`);
  return new Secret(Buffer.from(bytes).toString('utf8'));
}
