import { checkBinding } from '../appraise.ts';
import { requestTsmReport, type TsmPorts } from '../tsm/index.ts';
import type { Issuer } from '../verdict.ts';
import { certificatesFromTable, encodeSnpEvidence } from './evidence.ts';

/** Creates SEV-SNP evidence on the machine: the report of the firmware, with certificates if the host provides them. */
export class SnpIssuer implements Issuer {
  readonly variant = 'sev-snp';
  readonly #ports: TsmPorts;

  constructor(ports: TsmPorts) {
    this.#ports = ports;
  }

  async issue(binding: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    checkBinding(binding);
    const { outblob, auxblob } = await requestTsmReport(this.#ports, {
      provider: 'sev_guest',
      inblob: binding,
      signal,
    });
    const certificates = auxblob.length === 0 ? [] : certificatesFromTable(auxblob);
    return encodeSnpEvidence({ report: outblob, certificates });
  }
}
