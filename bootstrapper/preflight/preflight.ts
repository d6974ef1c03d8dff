import {
  collectMachineFacts,
  failedChecks,
  runChecks,
  MACHINE_CHECKS,
  PreflightError,
  type CheckResult,
  type CollectOptions,
  type CollectPorts,
  type PreflightErrorCode,
} from '../../internal/preflight/index.ts';

/** Refuses to serve at an address that this machine does not have (any more). @throws PreflightError */
export function refuseOtherAddress(address: string, addresses: readonly string[]): void {
  if (addresses.includes(address)) return;
  const now = addresses.length === 0 ? 'no address' : addresses.join(', ');
  throw new PreflightError(
    'preflight-address-changed',
    `serving at ${address}: this machine has ${now} now`,
    { details: { address, addresses } },
  );
}

export type PreflightPorts = CollectPorts;
export type PreflightOptions = Omit<CollectOptions, 'mayWriteTestFiles' | 'isNode'>;

/** Looks at the machine before it is changed. Rejects with the first failure; its details hold all of them. */
export async function runPreflight(ports: PreflightPorts, options: PreflightOptions): Promise<void> {
  const facts = await collectMachineFacts(ports, { ...options, mayWriteTestFiles: true, isNode: false });
  const failures = failedChecks(runChecks(MACHINE_CHECKS, facts));
  const [first, ...others] = failures;
  if (first === undefined) return;
  const more =
    others.length === 0 ? '' : ` (and ${others.length} more: ${others.map(({ cause }) => cause).join('; ')})`;
  throw new PreflightError(first.code as PreflightErrorCode, `checking the machine: ${first.cause}${more}`, {
    details: { findings: failures },
    fix: first.fix,
  });
}

/** What every check says. Changes nothing, not even for a moment. */
export async function checkMachine(
  ports: PreflightPorts,
  options: PreflightOptions,
): Promise<readonly CheckResult[]> {
  const facts = await collectMachineFacts(ports, { ...options, mayWriteTestFiles: false, isNode: false });
  return runChecks(MACHINE_CHECKS, facts);
}
