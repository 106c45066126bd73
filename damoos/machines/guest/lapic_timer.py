"""The timer of the local APIC, whose frequency a kernel is told instead of measuring it.

A kernel measures it by watching the TSC for a tenth of a second. Emulated at 4,000 MIPS, this takes the host 49 s of
each boot. A kernel that knows ``lapic_timer_period`` does not measure; on some hardware it learns it from the CPU. So a
guest is stopped where it is about to measure, and the period is written: here both clocks tick together, so it is that
of the TSC.

References
----------
Linux, arch/x86/kernel/apic/apic.c (calibrate_APIC_clock) and arch/x86/kernel/tsc.c (tsc_init)
"""

from __future__ import annotations

from collections.abc import Mapping

from damoos.errors import MachineLost
from damoos.machines.guest.debugger import Debugger

# Called by pointer, so no compiler makes it a part of its caller.
_MEASURES = "setup_boot_APIC_clock"
# In kHz; ticks in a period of the scheduler's tick, as the TSC tells; the same of the local APIC's timer.
_TSC_KHZ, _TICKS, _PERIOD = "tsc_khz", "lpj_fine", "lapic_timer_period"
SYMBOLS = (_MEASURES, _TSC_KHZ, _TICKS, _PERIOD)


def tell(debugger: Debugger, addresses: Mapping[str, int], mips: int) -> None:
    """Run a guest's kernel until it would measure the timer, tell it the period, and let it go on.

    Parameters
    ----------
    debugger : Debugger
        Of a guest that has not begun.
    addresses : mapping of str to int
        Of `SYMBOLS`, in this kernel.
    mips : int
        What the kernel was told of its CPU.

    Raises
    ------
    MachineLost : it never came there, or has not understood what it was told
    """
    debugger.run_to(addresses[_MEASURES])
    khz = debugger.read(addresses[_TSC_KHZ], 4)
    if khz != mips * 1000:
        raise MachineLost(f"the kernel takes its CPU for one of {khz} kHz, and was told tsc_early_khz={mips}000")
    debugger.write(addresses[_PERIOD], debugger.read(addresses[_TICKS], 8), 4)
    debugger.leave()
