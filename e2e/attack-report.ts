import type { TestContext } from 'node:test';

/**
 * Prints one line about an attack that a story made and that was refused as the story expects.
 * `npm run e2e -- attacks` shows these lines and no others.
 * @param by the component that refused the attack
 * @param code the error code of the refusal
 */
export function reportRefused(story: TestContext, attempted: string, by: string, code: string): void {
  story.diagnostic(`attempted: ${attempted} – refused by ${by}: ${code}`);
}

/** Prints one line about an attack that succeeds. docs/threat-model.md lists these attacks. */
export function reportOpen(story: TestContext, attempted: string, got: string): void {
  story.diagnostic(`attempted: ${attempted} – open, the attacker gets ${got}`);
}
