import { createPrivateKey, createPublicKey, randomBytes, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { openKeySecret } from '../../../internal/attestation/tpm/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { encodeTicketStatement, ticketEvidenceBinding } from '../../../internal/crypto/index.ts';
import { DiskFiles } from '../../../internal/file/index.ts';
import {
  createCertificateRequest,
  generateKeyPem,
  nodeIdOf,
  pubKeyDerOf,
  spkiDerOf,
} from '../../../internal/pki/index.ts';
import { tpmHardware } from '../../../internal/testing/tpm/machine-hardware.ts';
import { socketSource, Tpm } from '../../../internal/tpm/index.ts';
import type { CapturedStatement, StatementRequest } from './compromised-joinservice-request.ts';

const never = new AbortController().signal;

/**
 * Creates a ticket request of a joining machine: the statement and evidence bound to it, made with that
 * machine's key and TPM as its agent does. A join service receives such requests.
 */
export async function captureStatement(orders: StatementRequest): Promise<CapturedStatement> {
  const { stolen: loot, clusterId, address, roles, timeMs } = orders;
  await using tpm = new Tpm({ source: socketSource({ path: loot.tpm }), clock: new SystemClock() });
  const secret = await openKeySecret({ tpm, files: new DiskFiles(), path: loot.sealed, pcrs: [] }, never);
  const privKey = createPrivateKey(await readFile(loot.key, 'utf8'));
  const nodePubKeyDer = spkiDerOf(createPublicKey(privKey));
  const keys = {
    kubeletClientCsr: await createCertificateRequest(generateKeyPem(), 'x'),
    kubeletServingCsr: await createCertificateRequest(generateKeyPem(), 'x'),
    sealingPublicKey: pubKeyDerOf(generateKeyPem()),
    session: new Uint8Array(randomBytes(64)),
  };
  const statement = encodeTicketStatement({ ...keys, clusterId, nodePubKeyDer, address, roles, timeMs });
  const document = await tpmHardware(tpm, secret).issuer.issue(ticketEvidenceBinding(statement), never);
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  return {
    ...{ nodeId: nodeIdOf(nodePubKeyDer), address, roles, timeMs },
    kubeletClientCsr: text(keys.kubeletClientCsr),
    kubeletServingCsr: text(keys.kubeletServingCsr),
    sealingPublicKey: text(keys.sealingPublicKey),
    session: text(keys.session),
    signature: text(sign(undefined, statement, privKey)),
    evidence: [{ variant: 'tpm', document: text(document) }],
  };
}
