import { MachineKeyValidator } from '../machinekey/index.ts';
import { OwnerKeyValidator } from '../ownerkey/index.ts';
import { amdTrust, SnpIssuer, SnpValidator } from '../snp/index.ts';
import { intelTrust, TdxIssuer, TdxValidator } from '../tdx/index.ts';
import { TpmValidator } from '../tpm/index.ts';
import type { TsmPorts } from '../tsm/index.ts';
import type { Issuer, Variant } from '../verdict.ts';
import { CertificateCache } from '../x509/index.ts';
import { CompositeIssuer, CompositeValidator } from './composite.ts';
import type { ValidatorDependencies } from './registry.ts';

/** The validators for real machines: with the roots of AMD and Intel, and one certificate cache for all of them. */
export function standardValidators(options: {
  readonly ownerKeys: readonly Uint8Array[];
  /** Machines that are accepted by their key, as fingerprints (hex). Default: none. */
  readonly machineKeys?: ReadonlySet<string>;
}): ValidatorDependencies {
  const cache = new CertificateCache();
  const snp = (): SnpValidator => new SnpValidator({ trust: amdTrust(), cache });
  const tdx = (): TdxValidator => new TdxValidator({ trust: intelTrust(), cache });
  const tpm = (): TpmValidator => new TpmValidator();
  return {
    tpm,
    'sev-snp': snp,
    tdx,
    'snp+tpm': () => new CompositeValidator({ variant: 'snp+tpm', processor: snp(), tpm: tpm() }),
    'tdx+tpm': () => new CompositeValidator({ variant: 'tdx+tpm', processor: tdx(), tpm: tpm() }),
    'owner-key': () => new OwnerKeyValidator({ ownerKeys: options.ownerKeys }),
    'machine-key': () => new MachineKeyValidator({ fingerprints: options.machineKeys ?? new Set() }),
  };
}

/** The inputs for creating the issuers of this machine. The functions are called only for a variant that needs them. */
interface IssuerDependencies {
  readonly tsm: TsmPorts;
  readonly tpm: () => Issuer;
  readonly ownerKey: () => Issuer;
  readonly machineKey: () => Issuer;
}

/** Creates the issuer of the variant that this machine shows. */
export function createIssuer(
  variant: Variant,
  { tsm, tpm, ownerKey, machineKey }: IssuerDependencies,
): Issuer {
  switch (variant) {
    case 'tpm':
      return tpm();
    case 'sev-snp':
      return new SnpIssuer(tsm);
    case 'tdx':
      return new TdxIssuer(tsm);
    case 'snp+tpm':
      return new CompositeIssuer({ variant, processor: new SnpIssuer(tsm), tpm: tpm() });
    case 'tdx+tpm':
      return new CompositeIssuer({ variant, processor: new TdxIssuer(tsm), tpm: tpm() });
    case 'owner-key':
      return ownerKey();
    case 'machine-key':
      return machineKey();
  }
}
