import type { Clock } from '../../internal/clock/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import { deviceSource, socketSource, Tpm } from '../../internal/tpm/index.ts';

/** The TPM that the provisioning names, opened at its first use. undefined if the machine has no TPM. */
export function createTpm(provisioned: Provisioning['tpm'], clock: Clock): Tpm | undefined {
  switch (provisioned.kind) {
    case 'none':
      return undefined;
    case 'device':
      return new Tpm({ source: deviceSource(provisioned.path), clock });
    case 'socket':
      return new Tpm({ source: socketSource({ path: provisioned.path }), clock });
  }
}
