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

/**
 * Checks that this machine still has the address at which it serves.
 * @throws PreflightError `preflight-address-changed`
 */
export function refuseOtherAddress(address: string, addresses: readonly string[]): void {
  if (addresses.includes(address)) return;
  const now = addresses.length === 0 ? 'no address' : addresses.join(', ');
  throw new PreflightError(
    'preflight-address-changed',
    `address ${address} not found on this machine: it has ${now}`,
    { details: { address, addresses } },
  );
}

/** Ports (injected dependencies) of the checks. */
export type PreflightPorts = CollectPorts;
/** Expected values of the checks. */
export type PreflightOptions = Omit<CollectOptions, 'mayWriteTestFiles' | 'isNode'>;

/**
 * Runs all checks.
 * @throws PreflightError the first failed check; its details contain all of them
 */
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

/** The result of every check. Writes nothing, not even temporary files. */
export async function checkMachine(
  ports: PreflightPorts,
  options: PreflightOptions,
): Promise<readonly CheckResult[]> {
  const facts = await collectMachineFacts(ports, { ...options, mayWriteTestFiles: false, isNode: false });
  return runChecks(MACHINE_CHECKS, facts);
}
