/**
 * Composition root of the agent: opens all parts of the agent, wires every worker, and runs them. It has no
 * logic of its own.
 */
export { runAgent } from './agent.ts';
