import { createHash, sign } from 'node:crypto';
import {
  der,
  generateKey,
  issueCertificate,
  type TestCertificate,
  type TestCertificateOptions,
  type TestKey,
} from '../pki/index.ts';

export type TestProduct = 'Milan' | 'Genoa' | 'Turin';

export interface TestTcb {
  readonly fmc?: number;
  readonly bootloader: number;
  readonly tee: number;
  readonly snp: number;
  readonly microcode: number;
}

export interface TestChipOptions {
  readonly kind?: 'vcek' | 'vlek';
  readonly tcb?: TestTcb;
  readonly hardwareId?: Uint8Array;
  readonly cspId?: string;
  readonly productName?: string;
  readonly key?: TestKey;
  readonly issuer?: TestCertificate;
  /** Changes the list of extensions before it is signed, for example to leave one out or repeat one. */
  readonly editExtensions?: (
    extensions: ReturnType<typeof chipExtensions>,
  ) => ReturnType<typeof chipExtensions>;
  readonly certificate?: Partial<TestCertificateOptions>;
}

export interface TestReportOptions {
  readonly version?: number;
  readonly kind?: 'vcek' | 'vlek';
  readonly tcb?: TestTcb;
  readonly chipId?: Uint8Array;
  readonly reportData?: Uint8Array;
  readonly measurement?: Uint8Array;
  readonly cpuid?: { readonly family: number; readonly model: number };
  readonly key: TestKey;
  /** Changes the report before it is signed. */
  readonly edit?: (report: Buffer) => void;
}

const AMD = '1.3.6.1.4.1.3704.1';
const ORGANIZATION = ['O', 'Advanced Micro Devices'] as const;
const CPUID: Readonly<Record<TestProduct, { readonly family: number; readonly model: number }>> = {
  Milan: { family: 0x19, model: 0x01 },
  Genoa: { family: 0x19, model: 0x11 },
  Turin: { family: 0x1a, model: 0x02 },
};

/** A fake AMD for one product: root, CAs, chips, and the firmware that signs reports. */
export class TestAmd {
  readonly product: TestProduct;
  readonly ark: TestCertificate;
  readonly ask: TestCertificate;
  readonly asvk: TestCertificate;
  readonly hardwareId: Uint8Array;
  readonly tcb: TestTcb;

  constructor(product: TestProduct) {
    this.product = product;
    const authority = (name: string, issuer?: TestCertificate): TestCertificate =>
      issueCertificate({
        name: [ORGANIZATION, ['CN', name]],
        key: generateKey('rsa'),
        ca: {},
        keyUsage: [5, 6],
        ...(issuer && { issuer }),
      });
    this.ark = authority(`ARK-${product}`);
    this.ask = authority(`SEV-${product}`, this.ark);
    this.asvk = authority(`SEV-VLEK-${product}`, this.ark);
    this.hardwareId = new Uint8Array(product === 'Turin' ? 8 : 64).fill(0xc1);
    this.tcb = { ...(product === 'Turin' ? { fmc: 1 } : {}), bootloader: 4, tee: 2, snp: 20, microcode: 200 };
  }

  /** The trusted roots, to be used in place of AMD's own. */
  get trust() {
    const fingerprint = createHash('sha256').update(this.ark.der).digest('hex');
    return {
      roots: new Map([[fingerprint, this.product]]),
      authorities: [this.ark, this.ask, this.asvk].map((each) => each.der),
    };
  }

  /** The certificate of a chip or of a provider's key. */
  chip(options: TestChipOptions = {}): TestCertificate {
    const { kind = 'vcek', key = generateKey('p384'), editExtensions = (all) => all } = options;
    const extensions = editExtensions(
      chipExtensions({
        productName: kind === 'vcek' && this.product !== 'Turin' ? `${this.product}-B1` : this.product,
        tcb: this.tcb,
        hardwareId: this.hardwareId,
        cspId: 'CN=cc-test.example',
        ...options,
        kind,
      }),
    );
    return issueCertificate({
      name: [ORGANIZATION, ['CN', kind === 'vcek' ? 'SEV-VCEK' : 'SEV-VLEK']],
      key,
      issuer: options.issuer ?? (kind === 'vcek' ? this.ask : this.asvk),
      extensions,
      ...options.certificate,
    });
  }

  /** A signed report (AMD 56860, table 23). */
  report(options: TestReportOptions): Uint8Array {
    const { version = 5, kind = 'vcek', tcb = this.tcb, cpuid = CPUID[this.product], key } = options;
    const report = Buffer.alloc(0x4a0);
    report.writeUInt32LE(version, 0x00);
    report.writeBigUInt64LE(0x30000n, 0x08); // bit 16 SMT, bit 17 must be 1
    report.writeUInt32LE(1, 0x34);
    report.writeUInt32LE(kind === 'vcek' ? 0 : 1 << 2, 0x48);
    report.set(options.reportData ?? new Uint8Array(64).fill(0xb1), 0x50);
    report.set(options.measurement ?? new Uint8Array(48).fill(0xa1), 0x90);
    for (const offset of [0x38, 0x180, 0x1e0, 0x1f0]) report.set(this.encodeTcb(tcb), offset);
    if (version >= 3) report.set([cpuid.family, cpuid.model, 1], 0x188);
    report.set(options.chipId ?? this.hardwareId, 0x1a0);
    options.edit?.(report);
    return signReport(report, key);
  }

  encodeTcb(tcb: TestTcb): Uint8Array {
    const bytes = new Uint8Array(8);
    const { fmc = 0, bootloader, tee, snp, microcode } = tcb;
    if (this.product === 'Turin') bytes.set([fmc, bootloader, tee, snp]);
    else bytes.set([bootloader, tee, 0, 0, 0, 0, snp]);
    bytes[7] = microcode;
    return bytes;
  }
}

/** Signs bytes 0 to 0x29f and writes r and s as little-endian fields of 72 bytes. */
function signReport(report: Uint8Array, key: TestKey): Uint8Array {
  const signed = Uint8Array.from(report);
  const signature = sign('sha384', signed.subarray(0, 0x2a0), { key: key.priv, dsaEncoding: 'ieee-p1363' });
  const half = signature.length / 2;
  signed.fill(0, 0x2a0);
  signed.set(Uint8Array.from(signature.subarray(0, half)).reverse(), 0x2a0);
  signed.set(Uint8Array.from(signature.subarray(half)).reverse(), 0x2e8);
  return signed;
}

function chipExtensions(
  options: TestChipOptions & {
    readonly tcb: TestTcb;
    readonly hardwareId: Uint8Array;
    readonly cspId: string;
    readonly productName: string;
  },
) {
  const { kind, tcb, hardwareId, cspId, productName } = options;
  const level = (arc: string, value: number) => ({ oid: `${AMD}.3.${arc}`, value: der.integer(value) });
  return [
    { oid: `${AMD}.1`, value: der.integer(kind === 'vlek' ? 1 : 0) },
    { oid: `${AMD}.2`, value: der.text(productName, 0x16) },
    level('1', tcb.bootloader),
    level('2', tcb.tee),
    level('3', tcb.snp),
    level('8', tcb.microcode),
    ...(tcb.fmc === undefined ? [] : [level('9', tcb.fmc)]),
    // AMD writes the id as raw bytes, without tag and length.
    kind === 'vlek'
      ? { oid: `${AMD}.5`, value: der.text(cspId, 0x16) }
      : { oid: `${AMD}.4`, value: hardwareId },
  ];
}
