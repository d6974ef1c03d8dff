import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface UnitSettings {
  /** Flags of Node. */
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The settings of the shipped unit, with which the resident programs run. */
export function agentUnit(): UnitSettings {
  const unit = readFileSync(join(import.meta.dirname, '../../../.ci/package/bootstrapper.service'), 'utf8');
  const settings = [...unit.matchAll(/^Environment=(\w+)=(\S+)$/gm)].map(([, name = '', value = '']) => [
    name,
    value,
  ]);
  return {
    flags: unit.match(/(?<= )--[a-z][a-z-]+(=\d+)?/g) ?? [],
    env: Object.fromEntries(settings) as Record<string, string>,
  };
}
