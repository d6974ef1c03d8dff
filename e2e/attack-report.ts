import type { TestContext } from 'node:test';

/**
 * Prints one line about an attack that a story made and that was refused as the story expects. `npm run e2e -- attacks`
 * shows these lines and no others. @param by the component that refused @param code what it refused with
 */
export function reportRefused(story: TestContext, attempted: string, by: string, code: string): void {
  story.diagnostic(`attempted: ${attempted} – refused by ${by}: ${code}`);
}

/** Prints one line about an attack that succeeds, as docs/threat-model.md says. */
export function reportOpen(story: TestContext, attempted: string, got: string): void {
  story.diagnostic(`attempted: ${attempted} – open, the attacker gets ${got}`);
}
