import type { SnpProduct } from './product.ts';
import type { SnpTcb } from './tcb.ts';

/** The `sev-snp` section of a policy. A missing rule accepts nothing. */
export interface SnpRules {
  /** The accepted products, each with the minimum of its reported, committed and launch TCB. */
  readonly minimumTcb: ReadonlyMap<SnpProduct, SnpTcb>;
  readonly allowDebug: boolean;
  readonly allowMigrationAgent: boolean;
  readonly allowSmt: boolean;
  /** Committed firmware may differ from the running one. */
  readonly allowProvisionalFirmware: boolean;
  /** Reports from VMPL 0 up to this level are accepted. */
  readonly maxVmpl: 0 | 1 | 2 | 3;
  /** Providers whose VLEK is accepted; empty accepts only VCEKs. */
  readonly cspIds: readonly string[];
  /** Lower-case hex of SHA-384 over author keys. If present, one of these keys must have launched the machine. */
  readonly authorKeys?: readonly string[];
  /** Lower-case hex of SHA-384 over id keys. If present, one of these keys must have signed the id block. */
  readonly idKeys?: readonly string[];
  /** Lower-case hex. If present, HOST_DATA must be one of these values. */
  readonly hostData?: readonly string[];
  /** `required`: evidence is refused if there is no CRL of the product's root. An available CRL is always checked. */
  readonly revocation: 'required' | 'optional';
  /** Maximum age of a CRL. */
  readonly maxCollateralAgeMs: number;
}

/** Certificates and CRLs of AMD, DER, from the collateral bundle. Untrusted until verified, like those in evidence. */
export interface SnpCollateral {
  readonly certificates: readonly Uint8Array[];
  readonly crls: readonly Uint8Array[];
}
