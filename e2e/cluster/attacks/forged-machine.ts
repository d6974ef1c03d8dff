import { createPrivateKey, createPublicKey, randomBytes, sign, type KeyObject } from 'node:crypto';
import { MachineKeyIssuer } from '../../../internal/attestation/machinekey/index.ts';
import {
  encodeTicketStatement,
  generateEd25519Key,
  ticketEvidenceBinding,
} from '../../../internal/crypto/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  nodeIdOf,
  pubKeyDerOf,
  spkiDerOf,
} from '../../../internal/pki/index.ts';
import type { NodeRecord } from '../../../internal/records/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { CapturedStatement } from './compromised-joinservice-request.ts';

const never = new AbortController().signal;
/** An unused address in the network of the machines. */
const ADDRESS = '198.18.255.77';

/**
 * A machine that does not exist. The attacker, who controls the join service, creates its key and its
 * records.
 */
export class ForgedMachine {
  readonly nodeId: string;
  readonly fingerprint: string;
  readonly identity: string;
  /** SubjectPublicKeyInfo, DER, base64. */
  readonly pubKey: string;
  /** The attacker has the private half of this key. */
  readonly sealingPublicKey: string = text(pubKeyDerOf(generateKeyPem()));
  readonly #clusterId: string;
  readonly #privKey: KeyObject;
  readonly #pubKeyDer: Uint8Array;

  constructor(clusterId: string) {
    this.#clusterId = clusterId;
    this.#privKey = createPrivateKey(generateEd25519Key().reveal());
    this.#pubKeyDer = spkiDerOf(createPublicKey(this.#privKey));
    this.pubKey = text(this.#pubKeyDer);
    this.nodeId = nodeIdOf(this.#pubKeyDer);
    this.fingerprint = fingerprintOfKey(this.#pubKeyDer);
    this.identity = `machine-key:${this.fingerprint.replace('sha256:', '')}`;
  }

  record(name: string, roles: NodeRecord['roles']): NodeRecord {
    const evidenceDigest = this.fingerprint.replace('sha256:', '');
    return {
      ...{ version: 1, nodeId: this.nodeId, name, pubKey: this.pubKey, state: 'UP', roles, labels: {} },
      createdMs: 1,
      admission: {
        ...{ identity: this.identity, proof: 'pinned', variant: 'machine-key', profile: 'identity' },
        ...{ evidenceDigest, policyVersion: 'p', decidedBy: 'operator:owner', timeMs: 1 },
      },
    };
  }

  async ask(roles: readonly string[], address = ADDRESS): Promise<CapturedStatement> {
    const keys = {
      kubeletClientCsr: await createCertificateRequest(generateKeyPem(), 'x'),
      kubeletServingCsr: await createCertificateRequest(generateKeyPem(), 'x'),
      sealingPublicKey: new Uint8Array(Buffer.from(this.sealingPublicKey, 'base64')),
      session: new Uint8Array(randomBytes(64)),
    };
    const asked = { clusterId: this.#clusterId, address, roles, timeMs: Date.now() };
    const statement = encodeTicketStatement({ ...keys, ...asked, nodePubKeyDer: this.#pubKeyDer });
    const issuer = new MachineKeyIssuer({ privKey: new Secret(this.#privKey) });
    const document = await issuer.issue(ticketEvidenceBinding(statement), never);
    return {
      ...{ nodeId: this.nodeId, address, roles, timeMs: asked.timeMs },
      kubeletClientCsr: text(keys.kubeletClientCsr),
      kubeletServingCsr: text(keys.kubeletServingCsr),
      sealingPublicKey: text(keys.sealingPublicKey),
      session: text(keys.session),
      signature: text(sign(undefined, statement, this.#privKey)),
      evidence: [{ variant: 'machine-key', document: text(document) }],
    };
  }
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
