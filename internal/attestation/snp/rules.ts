import type { SnpProduct } from './product.ts';
import type { SnpTcb } from './tcb.ts';

/** What the policy asks of SNP evidence beyond register values. Nothing here has a default that accepts. */
export interface SnpRules {
  /** The products that may report, each with the lowest TCB that its reported, committed and launch TCB may have. */
  readonly minimumTcb: ReadonlyMap<SnpProduct, SnpTcb>;
  readonly allowDebug: boolean;
  readonly allowMigrationAgent: boolean;
  readonly allowSmt: boolean;
  /** Committed firmware may differ from the running one. */
  readonly allowProvisionalFirmware: boolean;
  /** Reports from VMPL 0 up to this one count. */
  readonly maxVmpl: 0 | 1 | 2 | 3;
  /** Providers whose VLEK may sign; empty means that only VCEKs count. */
  readonly cspIds: readonly string[];
  /** Lower-case hex of SHA-384 over the author key; when present, one of them must have launched the machine. */
  readonly authorKeys?: readonly string[];
  /** Lower-case hex of SHA-384 over the id key; when present, one of them must have signed the id block. */
  readonly idKeys?: readonly string[];
  /** Lower-case hex; when present, HOST_DATA must be one of them. */
  readonly hostData?: readonly string[];
  /** `required`: refused without a CRL of the product's root. A CRL that is there is always obeyed. */
  readonly revocation: 'required' | 'optional';
  /** How long ago a CRL may have been issued. */
  readonly maxCollateralAgeMs: number;
}

/** Certificates and CRLs of AMD, DER, from the collateral bundle. Untrusted until verified, like those in evidence. */
export interface SnpCollateral {
  readonly certificates: readonly Uint8Array[];
  readonly crls: readonly Uint8Array[];
}
