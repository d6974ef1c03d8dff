import { createHash, sign } from 'node:crypto';
import {
  der,
  generateKey,
  issueCertificate,
  issueCrl,
  TEST_NOW_MS,
  toPem,
  type TestCertificate,
  type TestExtension,
  type TestKey,
} from '../pki/index.ts';

export interface TestQuoteOptions {
  readonly version?: number;
  /** Only for quotes of version 5. */
  readonly bodyType?: 2 | 3 | 4;
  readonly reportData?: Uint8Array;
  readonly rtmrs?: readonly Uint8Array[];
  readonly attributes?: bigint;
  /** Changes header or body before they are signed. */
  readonly editHeader?: (header: Buffer) => void;
  readonly editBody?: (body: Buffer) => void;
  /** Changes the quoting enclave's report before the PCK signs it. */
  readonly editQeReport?: (report: Buffer) => void;
  readonly pck?: TestCertificate;
  readonly chain?: readonly Uint8Array[];
  /** The coordinates x and y of an attestation key, in place of the real one. */
  readonly attestationKey?: Uint8Array;
  readonly attestationSigner?: TestKey;
  readonly certificationType?: number;
  readonly pemTail?: string;
  readonly tail?: Uint8Array;
}

type Json = Record<string, unknown>;

export interface TestSignedJson {
  readonly text: string;
  readonly signature: Uint8Array;
}

const SGX = '1.2.840.113741.1.13.1';
const BODY_BYTES = { 2: 584, 3: 648, 4: 885 } as const;
const ORGANIZATION = ['O', 'Intel Corporation'] as const;
const HEX48 = '00'.repeat(48);

/** A fake Intel: root, PCK CA, one platform with its quoting enclave, and the signer of TCB info. */
export class TestIntel {
  readonly root: TestCertificate;
  readonly authority: TestCertificate;
  readonly processorAuthority: TestCertificate;
  readonly tcbSigner: TestCertificate;
  readonly pck: TestCertificate;
  readonly attestationKey = generateKey('p256');
  readonly fmspc = Buffer.from('90c06f000000', 'hex');

  constructor() {
    const authority = (name: string, issuer?: TestCertificate): TestCertificate =>
      issueCertificate({
        name: [['CN', name], ORGANIZATION],
        key: generateKey('p256'),
        ca: {},
        keyUsage: [5, 6],
        ...(issuer && { issuer }),
      });
    this.root = authority('Intel SGX Root CA');
    this.authority = authority('Intel SGX PCK Platform CA', this.root);
    this.processorAuthority = authority('Intel SGX PCK Processor CA', this.root);
    this.tcbSigner = issueCertificate({
      name: [['CN', 'Intel SGX TCB Signing'], ORGANIZATION],
      key: generateKey('p256'),
      issuer: this.root,
      keyUsage: [0],
    });
    this.pck = this.makePck();
  }

  get trust() {
    return { roots: new Set([createHash('sha256').update(this.root.der).digest('hex')]) };
  }

  makePck(
    options: {
      readonly issuer?: TestCertificate;
      readonly name?: string;
      readonly extensions?: readonly TestExtension[];
    } = {},
  ): TestCertificate {
    return issueCertificate({
      name: [['CN', options.name ?? 'Intel SGX PCK Certificate'], ORGANIZATION],
      key: generateKey('p256'),
      issuer: options.issuer ?? this.authority,
      keyUsage: [0],
      extensions: options.extensions ?? [{ oid: SGX, value: this.sgxExtension() }],
    });
  }

  /** Platform data as Intel certifies it (PCK certificate specification). */
  sgxExtension(edit: (fields: Uint8Array[]) => Uint8Array[] = (fields) => fields): Uint8Array {
    const field = (arc: string, value: Uint8Array): Uint8Array =>
      der.sequence(der.oid(`${SGX}.${arc}`), value);
    const svns = Array.from({ length: 16 }, (_, index) => field(`2.${index + 1}`, der.integer(5)));
    const tcb = der.sequence(
      ...svns,
      field('2.17', der.integer(11)),
      field('2.18', der.octets(new Uint8Array(16))),
    );
    const fields = [
      field('1', der.octets(new Uint8Array(16).fill(0xd1))),
      field('2', tcb),
      field('3', der.octets(new Uint8Array(2))),
      field('4', der.octets(this.fmspc)),
      field('5', der.integer(1, 0x0a)),
      field('6', der.octets(new Uint8Array(16).fill(0xd6))),
    ];
    return der.sequence(...edit(fields));
  }

  quote(options: TestQuoteOptions = {}): Uint8Array {
    const { version = 4, bodyType = version === 4 ? 2 : 3, tail = new Uint8Array() } = options;
    const header = Buffer.alloc(48);
    header.writeUInt16LE(version, 0);
    header.writeUInt16LE(2, 2);
    header.writeUInt32LE(0x81, 4);
    header.set(Buffer.from('939a7233f79c4ca9940a0db3957f0607', 'hex'), 12);
    options.editHeader?.(header);
    const body = makeBody(bodyType, options);
    const descriptor = Buffer.alloc(6);
    descriptor.writeUInt16LE(bodyType, 0);
    descriptor.writeUInt32LE(body.length, 2);
    const signed = Buffer.concat([header, ...(version === 4 ? [] : [descriptor]), body]);
    const signatureData = this.#signatureData(signed, options);
    return new Uint8Array(Buffer.concat([signed, sized32(signatureData), tail]));
  }

  #signatureData(signed: Uint8Array, options: TestQuoteOptions): Buffer {
    const { pck = this.pck, certificationType = 5, pemTail = '\0' } = options;
    const key = options.attestationKey ?? rawPublicKey(this.attestationKey);
    const auth = Buffer.alloc(32, 0xe1);
    const qeReport = Buffer.alloc(384);
    qeReport.set(Buffer.from('1100000000000000', 'hex'), 48);
    qeReport.fill(0xdc, 128, 160);
    qeReport.writeUInt16LE(2, 256);
    qeReport.writeUInt16LE(6, 258);
    qeReport.set(createHash('sha256').update(key).update(auth).digest(), 320);
    options.editQeReport?.(qeReport);
    const chain = options.chain ?? [pck.der, this.authority.der, this.root.der];
    const pem = Buffer.from(chain.map((each) => toPem(each)).join('') + pemTail, 'latin1');
    const length = Buffer.alloc(2);
    length.writeUInt16LE(auth.length);
    const certification = Buffer.concat([
      qeReport,
      rawSignature(pck.key, qeReport),
      length,
      auth,
      typed(certificationType, pem),
    ]);
    return Buffer.concat([
      rawSignature(options.attestationSigner ?? this.attestationKey, signed),
      key,
      typed(6, certification),
    ]);
  }

  /** TCB info v3 with one level that the platform reaches and one above it. */
  tcbInfo(edit: (info: Json) => void = () => undefined, signer = this.tcbSigner): TestSignedJson {
    const level = (svn: number, tcbStatus: string) => ({
      tcb: {
        sgxtcbcomponents: Array.from({ length: 16 }, () => ({ svn })),
        tdxtcbcomponents: Array.from({ length: 16 }, () => ({ svn: 0 })),
        pcesvn: 11,
      },
      tcbDate: '2026-01-01T00:00:00Z',
      tcbStatus,
      advisoryIDs: tcbStatus === 'UpToDate' ? [] : ['INTEL-SA-00001'],
    });
    const module = { mrsigner: HEX48, attributes: '00'.repeat(8), attributesMask: 'FF'.repeat(8) };
    const info = {
      id: 'TDX',
      version: 3,
      ...dates(),
      fmspc: this.fmspc.toString('hex').toUpperCase(),
      pceId: '0000',
      tcbType: 0,
      tcbEvaluationDataNumber: 17,
      tdxModule: module,
      tdxModuleIdentities: [
        { id: 'TDX_01', ...module, tcbLevels: [isvLevel(3, 'UpToDate'), isvLevel(1, 'OutOfDate')] },
      ],
      tcbLevels: [level(9, 'UpToDate'), level(5, 'UpToDate'), level(2, 'OutOfDate')],
    };
    return signedJson(info, edit, signer);
  }

  qeIdentity(edit: (identity: Json) => void = () => undefined, signer = this.tcbSigner): TestSignedJson {
    const identity = {
      id: 'TD_QE',
      version: 2,
      ...dates(),
      tcbEvaluationDataNumber: 17,
      miscselect: '00000000',
      miscselectMask: 'FFFFFFFF',
      attributes: '11000000000000000000000000000000',
      attributesMask: 'FBFFFFFFFFFFFFFF0000000000000000',
      mrsigner: 'DC'.repeat(32),
      isvprodid: 2,
      tcbLevels: [isvLevel(4, 'UpToDate'), isvLevel(1, 'OutOfDate')],
    };
    return signedJson(identity, edit, signer);
  }

  /** All collateral that is needed to verify the quotes of this fake Intel. */
  collateral() {
    return {
      certificates: [this.tcbSigner.der, this.authority.der, this.root.der],
      crls: [issueCrl({ issuer: this.root }), issueCrl({ issuer: this.authority })],
      tcbInfos: [this.tcbInfo()],
      qeIdentities: [this.qeIdentity()],
    };
  }
}

function makeBody(bodyType: 2 | 3 | 4, options: TestQuoteOptions): Buffer {
  const body = Buffer.alloc(BODY_BYTES[bodyType]);
  body.set([3, 1], 0); // TEE_TCB_SVN: module 1, its SVN 3
  body.writeBigUInt64LE(options.attributes ?? 1n << 28n, 120);
  body.fill(0xa0, 136, 184);
  for (const [index, rtmr] of (options.rtmrs ?? []).entries()) body.set(rtmr, 328 + 48 * index);
  body.set(options.reportData ?? new Uint8Array(64).fill(0xb1), 520);
  if (bodyType !== 2) body.set([3, 1], 584);
  options.editBody?.(body);
  return body;
}

function signedJson(document: Json, edit: (document: Json) => void, signer: TestCertificate): TestSignedJson {
  edit(document);
  const text = JSON.stringify(document);
  return { text, signature: rawSignature(signer.key, Buffer.from(text)) };
}

function dates() {
  const iso = (ms: number): string => new Date(ms).toISOString().replace('.000', '');
  return { issueDate: iso(TEST_NOW_MS - 86_400_000), nextUpdate: iso(TEST_NOW_MS + 29 * 86_400_000) };
}

function isvLevel(isvsvn: number, tcbStatus: string) {
  return { tcb: { isvsvn }, tcbDate: '2026-01-01T00:00:00Z', tcbStatus };
}

function rawPublicKey(key: TestKey): Uint8Array {
  return key.spki.subarray(key.spki.length - 64);
}

function rawSignature(key: TestKey, data: Uint8Array): Uint8Array {
  return sign('sha256', data, { key: key.priv, dsaEncoding: 'ieee-p1363' });
}

function sized32(content: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(content.length);
  return Buffer.concat([length, content]);
}

function typed(type: number, content: Uint8Array): Buffer {
  const head = Buffer.alloc(2);
  head.writeUInt16LE(type);
  return Buffer.concat([head, sized32(content)]);
}
